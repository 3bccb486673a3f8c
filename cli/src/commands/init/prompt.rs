//! Questions on the terminal: a line, a choice, a key that is not shown.

use std::io::{BufRead, Read};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tool_core::api::ErrorKind;

use crate::error::Error;
use crate::output::CommandOutput;

/// Longest answer. Keys and identifiers are far shorter.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// Longest key: some hundred bytes; a token of a cloud is some 2 KiB.
const KEY_BYTES_MAX: usize = 8 * 1024;

/// Ctrl-C, Ctrl-D, Ctrl-U, and the two keys that delete a character.
const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const CLEAR: u8 = 0x15;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];

pub(super) fn ask_line(question: &str, output: CommandOutput) -> Result<String, Error> {
    output.ask(question);
    let mut line = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut line);
    match read {
        Ok(0) | Err(_) => Err(no_answer()),
        Ok(_) => Ok(line.trim().to_owned()),
    }
}

/// Asks until a line is not empty.
pub(super) fn ask_nonempty_line(question: &str, output: CommandOutput) -> Result<String, Error> {
    loop {
        let text = ask_line(question, output)?;
        if !text.is_empty() {
            return Ok(text);
        }
        output.ask("This is needed.\n");
    }
}

/// Asks for a key without echoing it, even if the command is interrupted.
pub(super) fn ask_key(question: &str, output: CommandOutput) -> Result<String, Error> {
    // Echo is off before the question: the first characters of a key must neither be shown nor lost.
    let silent = SilentTerminal::enter();
    output.ask(question);
    let key = read_key(&mut std::io::stdin().lock());
    drop(silent);
    output.ask("\n");
    key
}

/// Reads the characters of a key up to the end of the line.
fn read_key(input: &mut impl Read) -> Result<String, Error> {
    let mut key = Vec::new();
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Err(no_answer()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(no_answer()),
            Ok(_) => match byte[0] {
                INTERRUPT => return Err(Error::Interrupted),
                END if key.is_empty() => return Err(no_answer()),
                b'\n' | b'\r' => break,
                CLEAR => key.clear(),
                erase if BACKSPACE.contains(&erase) => {
                    key.pop();
                }
                other if key.len() < KEY_BYTES_MAX => key.push(other),
                _ => {}
            },
        }
    }
    let key =
        String::from_utf8(key).map_err(|_| Error::new(ErrorKind::Usage, "The key is not text; nothing was written"))?;
    Ok(key.trim().to_owned())
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Usage, "No answer; nothing was written")
}

/// Turns off the echo of a terminal until this is dropped. Ctrl-C arrives as a character, so that no signal ends the
/// command before the terminal is restored.
struct SilentTerminal(Option<Termios>);

impl SilentTerminal {
    fn enter() -> Self {
        let stdin = std::io::stdin();
        let Ok(before) = termios::tcgetattr(&stdin) else {
            return Self(None);
        };
        let mut silent = before.clone();
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // Input typed before the question does not answer it.
        let set = termios::tcsetattr(&stdin, OptionalActions::Flush, &silent);
        Self(set.is_ok().then_some(before))
    }
}

impl Drop for SilentTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A closed terminal needs no echo.
            let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &[u8]) -> Result<String, Error> {
        read_key(&mut &typed[..])
    }

    #[test]
    fn a_key_is_read_up_to_the_end_of_the_line_with_corrections() {
        assert_eq!(read(b" sk-1 \nrest").expect("a key"), "sk-1");
        assert_eq!(read(b"skx\x7f-1\r").expect("a key"), "sk-1");
        assert_eq!(read(b"wrong\x15sk-1\n").expect("a key"), "sk-1");
        assert_eq!(
            read(&[&[b'k'; 20_000][..], b"\n"].concat()).expect("a key").len(),
            KEY_BYTES_MAX
        );
    }

    #[test]
    fn ctrl_c_interrupts_and_an_end_is_no_answer() {
        assert!(matches!(read(b"sk\x03"), Err(Error::Interrupted)));
        assert!(matches!(read(b"\x04"), Err(Error::Problem(_))));
        assert!(matches!(read(b"sk"), Err(Error::Problem(_))));
        assert!(matches!(read(b"\xff\n"), Err(Error::Problem(_))));
    }
}
