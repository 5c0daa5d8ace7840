#!lua flags=allow-oom
-- Forget worker processes that said nothing for too long.
-- KEYS[1]  the registry
-- returns  how many
-- parts    common beating
return drop_silent()
