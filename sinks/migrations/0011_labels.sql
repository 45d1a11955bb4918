-- How a label came about: with the judge's verdict hidden, and how likely it was to be asked for.
ALTER TABLE labels ADD COLUMN IF NOT EXISTS blind Bool DEFAULT false;

ALTER TABLE labels ADD COLUMN IF NOT EXISTS probability Float64 DEFAULT 1;
