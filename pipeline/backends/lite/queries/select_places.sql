SELECT owner, number FROM locks WHERE name = :name AND expires_at > :now
