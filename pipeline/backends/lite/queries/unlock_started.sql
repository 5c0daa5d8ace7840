DELETE FROM uniques WHERE type = ? AND key = ? AND job_id = ? AND until = 'started'
