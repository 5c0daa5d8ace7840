SELECT value FROM remembered WHERE name = :name
