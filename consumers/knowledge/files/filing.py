"""Which store of files these settings mean."""

from consumers.extras import S3
from consumers.knowledge.files.store import FileStore, FolderStore
from pipeline import Settings
from pipeline.errors import ConfigurationError


def files_of(settings: Settings) -> FileStore:
    """Return where these settings keep files. Raises FileStoreError, FileStoreFull, ConfigurationError."""
    if settings.files_url:
        if S3.absent:
            raise ConfigurationError(f"files_url names a bucket: {S3.how}")
        from consumers.knowledge.files.s3 import (  # here: boto3 loads slowly, and may be absent
            Bucket,
            S3Store,
        )

        return S3Store(Bucket.of(settings.files_url))
    return FolderStore(settings.data_dir / "files")
