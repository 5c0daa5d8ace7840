SELECT id, type, queue, data, opts, entry, claimed_at FROM jobs WHERE consumer = :consumer
