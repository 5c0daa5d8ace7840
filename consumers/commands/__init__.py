"""The commands of `streamlane`, one module a family."""
