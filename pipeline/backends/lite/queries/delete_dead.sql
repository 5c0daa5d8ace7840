DELETE FROM dead WHERE death_id IN (SELECT value FROM json_each(:ids))
