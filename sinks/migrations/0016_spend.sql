-- Money is set aside in sums, each a row that is replaced once it is settled, not noted by call:
-- worker, purpose, model and tokens stay empty. held_usd is kept from others besides what was spent.
ALTER TABLE spend ADD COLUMN IF NOT EXISTS held_usd Float64 AFTER usd;
