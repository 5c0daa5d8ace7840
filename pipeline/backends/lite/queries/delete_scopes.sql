DELETE FROM scopes WHERE seq = ?
