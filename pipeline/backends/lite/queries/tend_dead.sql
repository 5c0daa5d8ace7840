UPDATE dead SET tended = 1 WHERE death_id IN (SELECT value FROM json_each(:ids))
