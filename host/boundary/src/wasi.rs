//! WASI 0.2 without the file system: streams, waiting, clocks, random numbers, and interfaces that give a guest
//! nothing.
//!
//! These are our own implementations, because each of them enforces a limit: a wait ends at the call's deadline or on
//! cancellation, output goes to a bounded log, random bytes are counted, sockets are refused, and environment,
//! arguments and input are empty. Nothing here waits on an asynchronous runtime. `guard` implements files.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::io::error;
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::p2::bindings::sockets::{instance_network, ip_name_lookup, network, tcp_create_socket};
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::bindings::sync::sockets::{tcp, udp, udp_create_socket};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, Network, SocketError, SocketResult, StreamError, StreamResult,
    TcpSocket, UdpSocket,
};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsCtxView};

use crate::budget::GuestStop;
use crate::exchange::HttpExchange;
use crate::log;
use crate::staging::StageError;
use crate::store::STDERR_TAIL_BYTES;
use crate::store::StoreState;
use crate::streams::{GuestOutput, Input};
use tool_core::api::ErrorKind;

/// Longest sleep between two checks of the deadline and of cancellation.
const WAIT_SLICE: Duration = Duration::from_millis(5);

/// Longest sleep between two checks for a response: a server nearby answers within milliseconds.
const RESPONSE_SLICE: Duration = Duration::from_millis(1);

/// Resolution of the clocks. Timing attacks need finer steps, other guests do not.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// Monotonic time when a call begins. Some runtimes, such as Go's, take 0 for a broken clock.
const CLOCK_START: Duration = Duration::from_secs(1);

/// Wall-clock time in `describe()`, since the Unix epoch: the first second of the year 2000, so that the descriptor is
/// deterministic.
const DESCRIBED_AT: Duration = Duration::from_secs(946_684_800);

/// Adds all of WASI except the file system.
pub(super) fn link_wasi(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    type Own = HasSelf<StoreState>;
    error::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    poll::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    streams::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    monotonic_clock::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    wall_clock::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    random::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    insecure::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    insecure_seed::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    environment::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    exit::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    stdin::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    stdout::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    stderr::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    terminal_input::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    terminal_output::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    terminal_stdin::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    terminal_stdout::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    terminal_stderr::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    link_sockets(linker)
}

/// Links sockets, because components import them whether they use them or not; creating one is refused. The methods of
/// a socket can then never be called, and their context allows nothing either.
fn link_sockets(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    type Own = HasSelf<StoreState>;
    tcp_create_socket::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    udp_create_socket::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    ip_name_lookup::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    network::add_to_linker::<StoreState, Own>(linker, &network::LinkOptions::default(), |state| state)?;
    instance_network::add_to_linker::<StoreState, Own>(linker, |state| state)?;
    tcp::add_to_linker::<StoreState, WasiSockets>(linker, view_sockets)?;
    udp::add_to_linker::<StoreState, WasiSockets>(linker, view_sockets)
}

/// Sockets that can neither be bound nor connected.
fn view_sockets(state: &mut StoreState) -> WasiSocketsCtxView<'_> {
    WasiSocketsCtxView {
        ctx: &mut state.sockets,
        table: &mut state.table,
    }
}

// ---- streams ----

impl StoreState {
    /// Bytes that one host call may copy: as many as asked for, up to the limit.
    pub(super) fn host_call_bytes(&self, asked: u64) -> usize {
        usize::try_from(asked)
            .unwrap_or(usize::MAX)
            .min(self.call.limits.host_call_bytes)
    }

    /// Counts bytes that the guest reads.
    pub(super) fn count_read(&self, bytes: usize) -> Result<(), GuestStop> {
        let max = self.call.limits.read_bytes;
        self.call.read.add(bytes as u64, max, || {
            GuestStop::limit(format!("{max} bytes read"), ErrorKind::ReadLimit)
        })
    }

    fn read_input(&mut self, stream: &Resource<DynInputStream>, asked: u64) -> StreamResult<Vec<u8>> {
        self.call.check().map_err(trap_stream)?;
        let bytes = self.host_call_bytes(asked);
        let read = match self.entry_mut::<Input, _>(stream)? {
            Input::Empty => return Err(StreamError::Closed),
            Input::Repository { file, offset } => advance_offset(offset, file.read_at(bytes, *offset)),
            Input::Stage { file, offset } => advance_offset(offset, file.read_at(bytes, *offset)),
            Input::Body { bytes: body, offset } => {
                let part = &body[*offset..body.len().min(offset.saturating_add(bytes))];
                *offset += part.len();
                Ok(part.to_vec())
            }
        };
        let data = read.map_err(stream_error)?;
        if data.is_empty() && bytes > 0 {
            return Err(StreamError::Closed);
        }
        self.count_read(data.len()).map_err(trap_stream)?;
        Ok(data)
    }

    fn write_output(&mut self, stream: &Resource<DynOutputStream>, contents: &[u8]) -> StreamResult<()> {
        self.call.check().map_err(trap_stream)?;
        let limits = &self.call.limits;
        let written = match self.table.get_mut(&Resource::<GuestOutput>::new_borrow(stream.rep()))? {
            GuestOutput::Log { keep } => {
                let keep = *keep;
                self.say(contents, keep);
                return Ok(());
            }
            GuestOutput::Stage { file, offset } => {
                let written = self.stage.write(file, contents, *offset, limits);
                *offset = offset.saturating_add(contents.len() as u64);
                written
            }
            GuestOutput::Append { file } => self.stage.append(file, contents, limits),
            GuestOutput::Body { exchange } => {
                let exchange = Arc::clone(exchange);
                return self.write_body(&exchange, contents).map_err(trap_stream);
            }
        };
        written.map_err(|error| match error {
            StageError::Io(error) => stream_error(error),
            StageError::Stop(error) => StreamError::Trap(error),
        })
    }

    /// Records standard output or standard error.
    pub(super) fn say(&mut self, contents: &[u8], keep: bool) {
        log::record_message(&self.call, "debug", &String::from_utf8_lossy(contents));
        if keep {
            self.stderr.extend_from_slice(contents);
            let excess = self.stderr.len().saturating_sub(STDERR_TAIL_BYTES);
            self.stderr.drain(..excess);
        }
    }
}

fn advance_offset(offset: &mut u64, read: std::io::Result<Vec<u8>>) -> std::io::Result<Vec<u8>> {
    if let Ok(data) = &read {
        *offset += data.len() as u64;
    }
    read
}

fn trap_stream(stop: GuestStop) -> StreamError {
    StreamError::Trap(stop.into())
}

fn stream_error(error: std::io::Error) -> StreamError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => StreamError::Closed,
        _ => StreamError::LastOperationFailed(error.into()),
    }
}

impl streams::Host for StoreState {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        match error {
            StreamError::Closed => Ok(streams::StreamError::Closed),
            StreamError::LastOperationFailed(error) => {
                Ok(streams::StreamError::LastOperationFailed(self.table.push(error)?))
            }
            StreamError::Trap(error) => Err(error),
        }
    }
}

impl streams::HostInputStream for StoreState {
    fn read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        self.read_input(&stream, len)
    }

    fn blocking_read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        self.read_input(&stream, len)
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        Ok(self.read_input(&stream, len)?.len() as u64)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        Ok(self.read_input(&stream, len)?.len() as u64)
    }

    fn subscribe(&mut self, _: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        Ok(self.push(Pollable::Ready)?)
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        self.remove::<Input, _>(&stream)?;
        Ok(())
    }
}

impl streams::HostOutputStream for StoreState {
    fn check_write(&mut self, _: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(self.call.limits.host_call_bytes as u64)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, contents: Vec<u8>) -> StreamResult<()> {
        self.write_output(&stream, &contents)
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, contents: Vec<u8>) -> StreamResult<()> {
        self.write_output(&stream, &contents)
    }

    fn flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn subscribe(&mut self, _: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        Ok(self.push(Pollable::Ready)?)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        if len > self.call.limits.host_call_bytes as u64 {
            return Err(StreamError::trap("more zeroes than `check-write` allows"));
        }
        let zeroes = vec![0; self.host_call_bytes(len)];
        self.write_output(&stream, &zeroes)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        self.write_zeroes(stream, len)
    }

    fn splice(
        &mut self,
        output: Resource<DynOutputStream>,
        input: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        let data = self.read_input(&input, len)?;
        self.write_output(&output, &data)?;
        Ok(data.len() as u64)
    }

    fn blocking_splice(
        &mut self,
        output: Resource<DynOutputStream>,
        input: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        self.splice(output, input, len)
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        self.remove::<GuestOutput, _>(&stream)?;
        Ok(())
    }
}

impl error::Host for StoreState {}

impl error::HostError for StoreState {
    fn to_debug_string(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<String> {
        // Only the outermost error: its causes may name paths of the host.
        Ok(self.table.get(&error)?.to_string())
    }

    fn drop(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<()> {
        self.table.delete(error)?;
        Ok(())
    }
}

// ---- waiting ----

/// Event for which a guest can wait.
#[derive(Debug, Clone)]
pub(crate) enum Pollable {
    /// Files and output are always ready.
    Ready,
    /// A point in time.
    At(Instant),
    /// A time beyond the range of `Instant`.
    Never,
    /// The response to a request.
    Response(Arc<HttpExchange>),
}

impl Pollable {
    fn after(now: Instant, duration: Duration) -> Self {
        now.checked_add(duration).map_or(Self::Never, Self::At)
    }

    fn ready(&self, now: Instant) -> bool {
        match self {
            Self::Ready => true,
            Self::At(when) => *when <= now,
            Self::Never => false,
            Self::Response(exchange) => exchange.is_ready(),
        }
    }
}

impl StoreState {
    /// Returns the time for the guest. In `describe()` a guest must answer the same each time: its clock advances by
    /// one step for each read, and by the time that it has waited.
    fn instant(&mut self) -> Instant {
        if self.grants.is_some() {
            return Instant::now();
        }
        self.told += CLOCK_STEP;
        self.call.started + self.told
    }

    /// Waits until a pollable is ready, the call's time is over, or the session ends.
    fn wait(&mut self, pollables: &[Pollable]) -> Result<Vec<u32>, GuestStop> {
        loop {
            self.call.check()?;
            let now = self.instant();
            let ready: Vec<u32> = (0..)
                .zip(pollables)
                .filter(|(_, pollable)| pollable.ready(now))
                .map(|(index, _)| index)
                .collect();
            if !ready.is_empty() {
                return Ok(ready);
            }
            let until = pollables.iter().filter_map(|pollable| match pollable {
                Pollable::At(when) => Some(when.saturating_duration_since(now)),
                Pollable::Response(_) => Some(RESPONSE_SLICE),
                Pollable::Ready | Pollable::Never => None,
            });
            let slice = until.min().unwrap_or(WAIT_SLICE).min(WAIT_SLICE);
            std::thread::sleep(slice);
            self.told += slice;
        }
    }
}

impl poll::Host for StoreState {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        let pollables = pollables
            .iter()
            .map(|pollable| self.entry(pollable).cloned())
            .collect::<Result<Vec<Pollable>, _>>()?;
        if pollables.is_empty() {
            return Err(wasmtime::Error::msg("it polls nothing"));
        }
        Ok(self.wait(&pollables)?)
    }
}

impl poll::HostPollable for StoreState {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        let now = self.instant();
        Ok(self.entry::<Pollable, _>(&pollable)?.ready(now))
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let pollable = self.entry::<Pollable, _>(&pollable)?.clone();
        self.wait(&[pollable])?;
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.remove::<Pollable, _>(&pollable)?;
        Ok(())
    }
}

// ---- clocks ----

impl monotonic_clock::Host for StoreState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        let since = self.instant().saturating_duration_since(self.call.started);
        Ok(monotonic_ns(since))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(to_nanoseconds(CLOCK_STEP))
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let since = Duration::from_nanos(when).saturating_sub(CLOCK_START);
        let when = self.call.started.checked_add(since);
        Ok(self.push(when.map_or(Pollable::Never, Pollable::At))?)
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = self.instant();
        Ok(self.push(Pollable::after(now, Duration::from_nanos(duration)))?)
    }
}

impl wall_clock::Host for StoreState {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        let now = if self.grants.is_some() {
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
        } else {
            DESCRIBED_AT + self.instant().saturating_duration_since(self.call.started)
        };
        Ok(to_datetime(coarsen_duration(now)))
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(to_datetime(CLOCK_STEP))
    }
}

/// Time in nanoseconds that the monotonic clock shows `since` after the start of a call.
fn monotonic_ns(since: Duration) -> u64 {
    to_nanoseconds(CLOCK_START + coarsen_duration(since))
}

fn coarsen_duration(duration: Duration) -> Duration {
    let step = CLOCK_STEP.as_millis();
    Duration::from_millis(u64::try_from(duration.as_millis() / step * step).unwrap_or(u64::MAX))
}

fn to_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn to_datetime(since_epoch: Duration) -> wall_clock::Datetime {
    wall_clock::Datetime {
        seconds: since_epoch.as_secs(),
        nanoseconds: since_epoch.subsec_nanos(),
    }
}

// ---- random numbers ----

impl StoreState {
    fn random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        let max = self.call.limits.random_bytes;
        self.call.random.add(len, max, || {
            GuestStop::limit(format!("{max} random bytes"), ErrorKind::RandomLimit)
        })?;
        let mut bytes = vec![0; usize::try_from(len)?];
        if self.grants.is_some() {
            fill_random(&mut bytes)?
        } else {
            self.fill_alike(&mut bytes)
        }
        Ok(bytes)
    }

    /// Fills `bytes` with the same numbers each time, for `describe()`. SplitMix64 distributes well; the numbers are
    /// not secret.
    fn fill_alike(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.dealt = self.dealt.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut number = self.dealt;
            number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^= number >> 31;
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
    }

    fn random_u64(&mut self) -> wasmtime::Result<u64> {
        let bytes = self.random_bytes(8)?;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

#[cfg(target_os = "linux")]
fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

impl random::Host for StoreState {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.random_u64()
    }
}

impl insecure::Host for StoreState {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.random_u64()
    }
}

impl insecure_seed::Host for StoreState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random_u64()?, self.random_u64()?))
    }
}

// ---- what a guest has none of ----

impl environment::Host for StoreState {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        // The environment of the session is only for recipes.
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl exit::Host for StoreState {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(GuestStop::Exit(u8::from(status.is_err())).into())
    }

    fn exit_with_code(&mut self, status: u8) -> wasmtime::Result<()> {
        Err(GuestStop::Exit(status).into())
    }
}

impl stdin::Host for StoreState {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        Ok(self.push(Input::Empty)?)
    }
}

impl stdout::Host for StoreState {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        Ok(self.push(GuestOutput::Log { keep: false })?)
    }
}

impl stderr::Host for StoreState {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        Ok(self.push(GuestOutput::Log { keep: true })?)
    }
}

impl terminal_input::Host for StoreState {}

impl terminal_input::HostTerminalInput for StoreState {
    fn drop(&mut self, _: Resource<terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl terminal_output::Host for StoreState {}

impl terminal_output::HostTerminalOutput for StoreState {
    fn drop(&mut self, _: Resource<terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl terminal_stdin::Host for StoreState {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl terminal_stdout::Host for StoreState {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl terminal_stderr::Host for StoreState {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

// ---- sockets ----

fn refuse_socket<T>() -> SocketResult<T> {
    Err(SocketError::from(network::ErrorCode::AccessDenied))
}

impl network::Host for StoreState {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<network::ErrorCode> {
        error.downcast()
    }

    fn network_error_code(&mut self, _: Resource<wasmtime::Error>) -> wasmtime::Result<Option<network::ErrorCode>> {
        Ok(None)
    }
}

/// Placeholder for a network, which guests do not have.
struct NoNetwork;

impl network::HostNetwork for StoreState {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        self.remove::<NoNetwork, _>(&network)?;
        Ok(())
    }
}

impl instance_network::Host for StoreState {
    fn instance_network(&mut self) -> wasmtime::Result<Resource<Network>> {
        Ok(self.push(NoNetwork)?)
    }
}

impl tcp_create_socket::Host for StoreState {
    fn create_tcp_socket(&mut self, _: network::IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        refuse_socket()
    }
}

impl udp_create_socket::Host for StoreState {
    fn create_udp_socket(&mut self, _: network::IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        refuse_socket()
    }
}

impl ip_name_lookup::Host for StoreState {
    fn resolve_addresses(
        &mut self,
        _: Resource<Network>,
        _: String,
    ) -> SocketResult<Resource<ip_name_lookup::ResolveAddressStream>> {
        refuse_socket()
    }
}

impl ip_name_lookup::HostResolveAddressStream for StoreState {
    fn resolve_next_address(
        &mut self,
        _: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> SocketResult<Option<ip_name_lookup::IpAddress>> {
        refuse_socket()
    }

    fn subscribe(
        &mut self,
        _: Resource<ip_name_lookup::ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        Ok(self.push(Pollable::Ready)?)
    }

    fn drop(&mut self, _: Resource<ip_name_lookup::ResolveAddressStream>) -> wasmtime::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_starts_above_zero() {
        assert_eq!(monotonic_ns(Duration::ZERO), 1_000_000_000);
        assert_eq!(monotonic_ns(Duration::from_micros(1_999)), 1_001_000_000);
    }
}
