//! The input of a fuzz target, shared by the crates that have one.

#![allow(dead_code, reason = "each crate includes this file and uses a part of it")]

/// The bytes of one run, taken apart from the front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A choice; 0 where nothing is left.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// Takes the bytes before the next NUL, and the NUL.
    pub(crate) fn part(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let part = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        part
    }

    /// Takes the next part as text.
    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.part()).into_owned()
    }

    /// Returns the rest.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// `bytes` in pieces of odd lengths, the same ones for the same seed.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut state, mut rest, mut pieces) = (u32::from(seed) + 1, bytes, Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Mostly short: what goes wrong between two reads does so within a mark or a character.
        let longest = if state & 0x100 == 0 { 4 } else { 64 };
        let (piece, more) = rest.split_at(((state >> 16) as usize % longest + 1).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    pieces
}
