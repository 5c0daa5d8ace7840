DELETE FROM paused WHERE queue = :queue
