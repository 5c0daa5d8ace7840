"""Sources that documents are harvested from: kinds of them behind one protocol, and what keeps a base in step with them."""
