DELETE FROM scopes WHERE kind = ? AND id = ? AND seq = ?
