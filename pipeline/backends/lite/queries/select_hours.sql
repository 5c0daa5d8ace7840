SELECT queue, hour, processed, failed, cancelled FROM stats WHERE hour >= :first
