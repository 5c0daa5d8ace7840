SELECT covers, cut FROM fences WHERE kind = :kind AND id = :id
