UPDATE counters SET value = iif(name = 'quiet_until', :until, :now) WHERE name IN ('reclaimed_at', 'quiet_until')
