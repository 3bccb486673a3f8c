//! A provider whose certificate is by an authority of one's own: what a call says without it, and the two ways to name it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tool_model_server::{ModelServer, Round};

use super::{repository, serve};
use crate::support::{Finished, Home, finish, folder, holds, run};

/// Takes requests over TLS and hands each one to the model server at the port of its argument.
const RELAY: &str = "
import http.client, http.server, ssl, sys
class Relay(http.server.BaseHTTPRequestHandler):
    def relay(self):
        body = self.rfile.read(int(self.headers.get('content-length', 0)))
        server = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))
        server.request(self.command, self.path, body, {'content-type': 'application/json'})
        answer = server.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        self.send_header('content-type', answer.getheader('content-type', 'text/plain'))
        self.send_header('content-length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    do_GET = do_POST = relay
    def log_message(self, *words):
        pass
relay = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Relay)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('server.pem', 'server.key')
relay.socket = context.wrap_socket(relay.socket, server_side=True)
print(relay.server_address[1], flush=True)
relay.serve_forever()
";

/// The relay, which ends with the test.
struct TlsRelay {
    process: Child,
    port: u16,
}

impl TlsRelay {
    /// Starts it with a certificate by an authority `ca.pem` in `certificates`.
    #[expect(clippy::disallowed_methods, reason = "the tests start a server as a user does")]
    fn start(server: &ModelServer, certificates: &Path) -> Self {
        std::fs::write(certificates.join("names"), "subjectAltName=IP:127.0.0.1\n").expect("it is writable");
        let key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-batch",
        ];
        let openssl = |arguments: &[&str]| run(certificates, Path::new("openssl"), arguments);
        let ca = [
            "-x509",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=Our authority",
        ];
        openssl(&[&["req"], &key[..], &ca].concat());
        let request = ["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1"];
        openssl(&[&["req"], &key[..], &request].concat());
        let by = [
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "names",
        ];
        openssl(&[&["x509", "-req", "-in", "server.csr", "-out", "server.pem"], &by[..]].concat());
        let root = server.root();
        let (_, port) = root.rsplit_once(':').expect("it ends with its port");
        let mut process = Command::new("python3")
            .args(["-c", RELAY, port])
            .current_dir(certificates)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it says its port");
        let port = line.trim().parse().expect("a port");
        Self { process, port }
    }

    fn config(&self, further: &str) -> String {
        let port = self.port;
        format!(
            "[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"https://127.0.0.1:{port}/v1\"\n{further}\n"
        )
    }
}

impl Drop for TlsRelay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_unknown_authority_is_named_by_the_setting_or_by_a_variable_of_the_call() {
    let (certificates, repository) = (folder(&[("note", "")]), repository());
    let server = serve(vec![Round::text("It counts crates."); 3]);
    let relay = TlsRelay::start(&server, certificates.path());
    let authority = certificates.path().join("ca.pem");
    let authority = authority.to_str().expect("it is UTF-8");
    let home = Home::configured(&relay.config(""));
    let explain = |home: &Home, variable: Option<(&str, &str)>| -> Finished {
        let mut command = home.tool(repository.path(), &["explain", "app.py"]);
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        command.envs(variable);
        finish(command.output().expect("the binary runs"))
    };
    let hint = "`ca_file` in [providers.local] of config.toml, or the variable SSL_CERT_FILE for one call";
    let refused = |finished: Finished| {
        let said = finished.expect(1).stderr;
        holds(
            &said,
            &["an authority that is not known here has signed its certificate", hint],
        );
    };
    // The backend starts with the first call, whose variable counts for no other one.
    let known = explain(&home, Some(("SSL_CERT_FILE", authority))).expect(0);
    holds(&known.stdout, &["It counts crates."]);
    refused(explain(&home, None));
    let folder = certificates.path().join("known");
    std::fs::create_dir(&folder).expect("it is writable");
    std::fs::copy(authority, folder.join("ca.pem")).expect("it is writable");
    run(certificates.path(), Path::new("openssl"), &["rehash", "known"]);
    let list = format!("/no/such/folder:{}", folder.display());
    let known = explain(&home, Some(("SSL_CERT_DIR", &list))).expect(0);
    holds(&known.stdout, &["It counts crates."]);
    refused(explain(&home, None));
    let wrong = explain(&home, Some(("SSL_CERT_FILE", "/no/such/file.pem")))
        .expect(1)
        .stderr;
    holds(
        &wrong,
        &["no certificates were read from `/no/such/file.pem`", "SSL_CERT_FILE"],
    );
    let doctor = home.run(repository.path(), &["doctor"]);
    holds(&doctor.stdout, &[hint]);
    let set = Home::configured(&relay.config(&format!("ca_file = \"{authority}\"")));
    holds(&explain(&set, None).expect(0).stdout, &["It counts crates."]);
    let relative = Home::configured(&relay.config("ca_file = \"ca.pem\""));
    holds(
        &explain(&relative, None).expect(2).stderr,
        &["`ca_file`", "is no absolute path"],
    );
}
