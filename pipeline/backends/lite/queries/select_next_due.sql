SELECT min(due_at) FROM jobs WHERE state IN ('scheduled', 'retry')
