UPDATE jobs SET rerun = :rerun WHERE seq = :seq
