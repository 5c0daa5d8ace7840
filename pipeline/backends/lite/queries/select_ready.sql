SELECT value AS queue FROM json_each(:queues)
WHERE value NOT IN (SELECT queue FROM paused)
  AND EXISTS (SELECT 1 FROM jobs WHERE place IS NOT NULL AND queue = value)
