-- As many as `pipeline.records.KEPT`.
UPDATE jobs
SET history = json_insert(
    iif(json_array_length(history) >= 20, json_remove(history, '$[0]'), coalesce(history, '[]')), '$[#]', json(?)
)
WHERE seq = ?
