//! The form of components inside the program: deflated. Compiled code shrinks to a third, the tables of a grammar to a
//! sixth. Only what is called is inflated, at its first call.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Largest component, inflated.
const INFLATED_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Inflates a component or its compiled code.
pub fn inflate(deflated: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated)
        .take(INFLATED_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Deflates a component or its compiled code. For the build of the product.
pub fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
