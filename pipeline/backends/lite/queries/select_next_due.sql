SELECT min(due_at) FROM jobs WHERE due_at IS NOT NULL
