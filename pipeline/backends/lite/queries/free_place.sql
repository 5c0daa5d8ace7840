DELETE FROM locks WHERE name = :name AND owner = :owner AND expires_at > :now
