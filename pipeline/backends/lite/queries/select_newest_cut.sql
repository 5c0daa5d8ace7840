SELECT max(cut) FROM fences
