//! Files in Git LFS. git stores a pointer with the digest and size of the file, which can be compared without running
//! the LFS program.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::GitHelper;
use super::messages::{Attributes, ObjectId};
use tool_boundary::Failure;
use tool_core::digest::to_hexadecimal;
use tool_core::lfs::{LfsPointer, POINTER_BYTES_MAX};

/// True if a file of the work tree has the content that the stored pointer describes, or is that pointer.
pub(in crate::imports) fn is_unchanged(
    git: &mut GitHelper,
    attributes: &Attributes,
    stored: &ObjectId,
    file: &mut File,
    cancel: &CancellationToken,
) -> Result<bool, Failure> {
    if attributes.external_filter.as_deref() != Some("filter=lfs") {
        return Ok(false);
    }
    let Some(stored) = git.blob(stored, POINTER_BYTES_MAX as u64)? else {
        return Ok(false);
    };
    let is_same = LfsPointer::parse(&stored).is_some_and(|pointer| {
        let compared = compare_content(file, &stored, &pointer, cancel);
        compared.unwrap_or(false) && file.rewind().is_ok()
    });
    Ok(is_same)
}

fn compare_content(
    file: &mut File,
    stored: &[u8],
    pointer: &LfsPointer,
    cancel: &CancellationToken,
) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    if bytes == stored.len() as u64 {
        let mut content = Vec::new();
        file.by_ref().take(bytes).read_to_end(&mut content)?;
        file.rewind()?;
        if content == stored {
            return Ok(true);
        }
    }
    if bytes != pointer.bytes {
        return Ok(false);
    }
    let (mut digest, mut piece) = (Sha256::new(), vec![0; 1024 * 1024]);
    let mut left = bytes;
    while left > 0 && !cancel.is_cancelled() {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        digest.update(&piece[..read]);
        left = left.saturating_sub(read as u64);
    }
    Ok(left == 0 && to_hexadecimal(&digest.finalize()) == pointer.digest)
}
