INSERT INTO remembered (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = iif(:anew, excluded.value, value)
RETURNING value
