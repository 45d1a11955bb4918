-- What the review page adds to a label: the cause that a person sees, and whether the claim was
-- drawn by chance; one that was looked at because it is bad says nothing about the others.
ALTER TABLE labels ADD COLUMN IF NOT EXISTS cause LowCardinality(String) DEFAULT '';

ALTER TABLE labels ADD COLUMN IF NOT EXISTS drawn Bool DEFAULT true;
