UPDATE jobs SET due_at = :due WHERE seq = :seq
