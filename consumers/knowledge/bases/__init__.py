"""Knowledge bases: found, set up, and asked whether they live."""
