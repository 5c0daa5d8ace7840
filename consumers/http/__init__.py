"""The domain over HTTP: a module a concept, each with a `router` that `consumers.api` mounts."""
