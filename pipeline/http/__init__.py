"""HTTP: the admin API and what it stands on. Knows nothing of documents; who does gives it a `Business`."""
