DELETE FROM workers WHERE worker = :worker
