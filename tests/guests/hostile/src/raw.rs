//! Calls that the standard library does not offer, or would not let through.
#![expect(
    unsafe_code,
    reason = "calls of the C library that the standard library does not wrap"
)]
#![allow(missing_docs, reason = "generated")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io::ErrorKind;

wit_bindgen::generate!({
    inline: "
        package guest:raw;
        world raw {
            import wasi:clocks/monotonic-clock@0.2.6;
        }
        package wasi:io@0.2.6 {
            interface poll {
                resource pollable {
                    ready: func() -> bool;
                    block: func();
                }
                poll: func(in: list<borrow<pollable>>) -> list<u32>;
            }
        }
        package wasi:clocks@0.2.6 {
            interface monotonic-clock {
                use wasi:io/poll@0.2.6.{pollable};
                type instant = u64;
                type duration = u64;
                now: func() -> instant;
                resolution: func() -> duration;
                subscribe-instant: func(when: instant) -> pollable;
                subscribe-duration: func(when: duration) -> pollable;
            }
        }
    ",
    world: "guest:raw/raw",
    generate_all,
});

use skill_sdk::component::bindings::tool::skill::bulk;
use wasi::clocks::monotonic_clock::subscribe_duration;

unsafe extern "C" {
    #[link_name = "symlink"]
    fn c_symlink(old: *const c_char, new: *const c_char) -> c_int;
    fn getentropy(buffer: *mut c_void, length: usize) -> c_int;
}

pub(crate) fn symlink(old: &str, new: &str) -> std::io::Result<()> {
    let (old, new) = (CString::new(old)?, CString::new(new)?);
    // SAFETY: both are C strings that outlive the call.
    match unsafe { c_symlink(old.as_ptr(), new.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A directory that was given.
fn root(root: &str) -> std::io::Result<i32> {
    let mut list = [0_usize; 2];
    // SAFETY: the component model writes a list's address and length, and the list lives as long as the guest.
    let directories = unsafe {
        abi::get_directories(list.as_mut_ptr().cast());
        std::slice::from_raw_parts(list[0] as *const (i32, *const u8, usize), list[1])
    };
    let is_root = |&&(_, name, length): &&(i32, *const u8, usize)| {
        // SAFETY: as above, for the name.
        unsafe { std::slice::from_raw_parts(name, length) == root.as_bytes() }
    };
    let (directory, ..) = directories.iter().find(is_root).ok_or(ErrorKind::NotFound)?;
    Ok(*directory)
}

/// Opens a path as it is beneath a directory that was given, which the C library would not let through.
fn open(directory: &str, path: &str, open_flags: u32, flags: u32) -> std::io::Result<i32> {
    let directory = root(directory)?;
    let mut answer = Answer::default();
    // SAFETY: the path outlives the call, and the answer has room for a handle.
    unsafe {
        abi::open_at(
            directory,
            1,
            path.as_ptr(),
            path.len(),
            open_flags,
            flags,
            answer.place(),
        );
    }
    answer.handle()
}

/// Room for a result: its tag, then a handle, the number of an error, or the address and length of a list.
#[derive(Default)]
#[repr(C)]
struct Answer {
    tag: u8,
    payload: [u32; 4],
}

impl Answer {
    fn place(&mut self) -> *mut u8 {
        std::ptr::from_mut(self).cast()
    }

    fn handle(&self) -> std::io::Result<i32> {
        // The errors that a refusal has: `access` and `not-permitted` of files.
        match (self.tag, self.payload[0] & 0xff) {
            (0, _) => Ok(self.payload[0] as i32),
            (_, 0 | 31) => Err(ErrorKind::PermissionDenied.into()),
            (_, 20) => Err(ErrorKind::NotFound.into()),
            _ => Err(ErrorKind::Other.into()),
        }
    }
}

/// The functions as the component model lowers them: the interfaces are those of the standard library.
mod abi {
    #[link(wasm_import_module = "wasi:filesystem/preopens@0.2.6")]
    unsafe extern "C" {
        #[link_name = "get-directories"]
        pub(crate) fn get_directories(list: *mut u8);
    }

    #[link(wasm_import_module = "wasi:filesystem/types@0.2.6")]
    unsafe extern "C" {
        #[link_name = "[method]descriptor.open-at"]
        pub(crate) fn open_at(
            directory: i32,
            path_flags: u32,
            path: *const u8,
            length: usize,
            open_flags: u32,
            flags: u32,
            answer: *mut u8,
        );
        #[link_name = "[method]descriptor.read-directory"]
        pub(crate) fn read_directory(directory: i32, answer: *mut u8);
        #[link_name = "[method]directory-entry-stream.read-directory-entry"]
        pub(crate) fn read_directory_entry(stream: i32, answer: *mut u8);
        #[link_name = "[method]descriptor.read"]
        pub(crate) fn read(file: i32, length: u64, offset: u64, answer: *mut u8);
    }

    #[link(wasm_import_module = "wasi:cli/stdin@0.2.6")]
    unsafe extern "C" {
        #[link_name = "get-stdin"]
        pub(crate) fn get_stdin() -> i32;
    }

    #[link(wasm_import_module = "wasi:io/streams@0.2.6")]
    unsafe extern "C" {
        #[link_name = "[method]input-stream.subscribe"]
        pub(crate) fn subscribe(stream: i32) -> i32;
        #[link_name = "[method]input-stream.blocking-read"]
        pub(crate) fn blocking_read(stream: i32, length: u64, answer: *mut u8);
        #[link_name = "[resource-drop]input-stream"]
        pub(crate) fn drop_stream(stream: i32);
    }

    #[link(wasm_import_module = "wasi:io/poll@0.2.6")]
    unsafe extern "C" {
        #[link_name = "[method]pollable.block"]
        pub(crate) fn block(pollable: i32);
        #[link_name = "[resource-drop]pollable"]
        pub(crate) fn drop_pollable(pollable: i32);
    }

    #[link(wasm_import_module = "wasi:sockets/tcp-create-socket@0.2.6")]
    unsafe extern "C" {
        #[link_name = "create-tcp-socket"]
        pub(crate) fn create_tcp_socket(family: u32, answer: *mut u8);
    }

    #[link(wasm_import_module = "wasi:sockets/udp-create-socket@0.2.6")]
    unsafe extern "C" {
        #[link_name = "create-udp-socket"]
        pub(crate) fn create_udp_socket(family: u32, answer: *mut u8);
    }
}

/// The names in the repository, without the questions about each that the C library asks.
pub(crate) fn list() -> std::io::Result<String> {
    let mut answer = Answer::default();
    // SAFETY: the answer has room for a handle.
    unsafe { abi::read_directory(root("/repo")?, answer.place()) };
    let stream = answer.handle()?;
    let mut names = Vec::new();
    loop {
        let mut answer = Answer::default();
        // SAFETY: the answer has room for an entry: whether there is one, its kind, its name's address and length.
        unsafe { abi::read_directory_entry(stream, answer.place()) };
        let [is_there, _, address, length] = answer.payload;
        if answer.tag != 0 || is_there & 0xff == 0 {
            return Ok(names.join(" "));
        }
        // SAFETY: the component model has put the name there.
        let name = unsafe { std::slice::from_raw_parts(address as *const u8, length as usize) };
        names.push(String::from_utf8_lossy(name).into_owned());
    }
}

pub(crate) fn read(path: &str) -> std::io::Result<String> {
    let file = open("/repo", path, 0, 1)?;
    let mut answer = Answer::default();
    // SAFETY: the answer has room for a list's address and length, and whether the file is at its end.
    unsafe { abi::read(file, 64, 0, answer.place()) };
    if answer.tag != 0 {
        return Err(ErrorKind::Other.into());
    }
    // SAFETY: the component model has put the list there.
    let bytes = unsafe { std::slice::from_raw_parts(answer.payload[0] as *const u8, answer.payload[1] as usize) };
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// With the flags `create` and `write`.
pub(crate) fn create(path: &str) -> std::io::Result<()> {
    open("/stage", path, 1, 2).map(drop)
}

/// Waits until there is input, or an end of it, which is no reason to stop.
pub(crate) fn wait_for_input() {
    let mut answer = Answer::default();
    // SAFETY: the handles are dropped once, and the answer has room for a list or an error.
    unsafe {
        let input = abi::get_stdin();
        let pollable = abi::subscribe(input);
        abi::block(pollable);
        abi::drop_pollable(pollable);
        abi::blocking_read(input, 1, answer.place());
        abi::drop_stream(input);
    }
}

pub(crate) fn tcp_socket() -> std::io::Result<()> {
    let mut answer = Answer::default();
    // SAFETY: the answer has room for a handle.
    unsafe { abi::create_tcp_socket(0, answer.place()) };
    got(&answer)
}

pub(crate) fn udp_socket() -> std::io::Result<()> {
    let mut answer = Answer::default();
    // SAFETY: the answer has room for a handle.
    unsafe { abi::create_udp_socket(0, answer.place()) };
    got(&answer)
}

/// Of sockets `access-denied` is the second error.
fn got(answer: &Answer) -> std::io::Result<()> {
    match (answer.tag, answer.payload[0] & 0xff) {
        (0, _) => Ok(()),
        (_, 1) => Err(ErrorKind::PermissionDenied.into()),
        _ => Err(ErrorKind::Other.into()),
    }
}

pub(crate) fn random(buffer: &mut [u8]) {
    for chunk in buffer.chunks_mut(256) {
        // SAFETY: the pointer and the length are those of a live buffer.
        unsafe { getentropy(chunk.as_mut_ptr().cast(), chunk.len()) };
    }
}

pub(crate) fn wait(nanoseconds: u64) {
    subscribe_duration(nanoseconds).block();
}

/// Opens selections with globs of their own and reads none of them.
pub(crate) fn hoard_selections(count: u64) -> Result<(), String> {
    for number in 0..count {
        let selection = bulk::Selection {
            under: String::new(),
            globs: vec![format!("*.{number}")],
            start: None,
            end: None,
            file_bytes_max: 1,
            text_only: true,
        };
        std::mem::forget(bulk::open(&selection).map_err(|failure| failure.code)?);
    }
    Ok(())
}

pub(crate) fn hoard(count: u64) {
    for _ in 0..count {
        std::mem::forget(subscribe_duration(0));
    }
}
