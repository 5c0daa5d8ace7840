INSERT OR IGNORE INTO scopes (kind, id, seq) VALUES (?, ?, ?)
