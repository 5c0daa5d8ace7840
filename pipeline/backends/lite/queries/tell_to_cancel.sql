UPDATE jobs SET cancel = 1, rerun = iif(json_extract(rerun, '$.root_at') > ?, rerun, NULL) WHERE seq = ?
