SELECT queue, processed, failed, cancelled FROM stats WHERE day = :day
