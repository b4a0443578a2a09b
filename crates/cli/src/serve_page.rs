//! One page on one loopback port, until somebody presses Ctrl-C.
//!
//! Answers GET of `/` and nothing else, to whoever asks for this address by its number or as `localhost`, so
//! that no page of another site can read it through a name of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Longest request that is read.
const MAX_REQUEST_BYTES: u64 = 16 << 10;
/// How long a browser may take to ask, and between two looks for Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_millis(50);

/// Serves the page; `listening` hears the port, `stop` ends it.
pub(crate) fn serve(
    page: &str,
    port: u16,
    listening: &mut dyn FnMut(u16),
    stop: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let port = listener.local_addr()?.port();
    listener.set_nonblocking(true)?;
    listening(port);
    while !stop() {
        match listener.accept() {
            // A browser that went away, or asked for nonsense, is no reason to end.
            Ok((stream, _)) => drop(answer(&stream, page, port)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(EVERY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, page: &str, port: u16) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.take(MAX_REQUEST_BYTES)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut host = String::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            value.trim().clone_into(&mut host);
        }
    }
    let (status, body) = reply(&first, &host, page, port);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
         close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Status and body for a request line and the host that it was sent to.
fn reply<'p>(first: &str, host: &str, page: &'p str, port: u16) -> (&'static str, &'p str) {
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let known = host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}");
    match (method, path) {
        _ if !known => ("421 Misdirected Request", ""),
        ("GET", "/") => ("200 OK", page),
        ("GET", _) => ("404 Not Found", ""),
        _ => ("405 Method Not Allowed", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_is_given_and_only_to_who_asks_for_this_address() {
        let status =
            |first: &str, host: &str| reply(first, host, "page", 80).0.split(' ').next().unwrap_or("");
        assert_eq!(reply("GET / HTTP/1.1", "127.0.0.1:80", "page", 80), ("200 OK", "page"));
        assert_eq!(status("GET / HTTP/1.1", "localhost:80"), "200");
        assert_eq!(status("GET /etc/passwd HTTP/1.1", "localhost:80"), "404");
        assert_eq!(status("POST / HTTP/1.1", "localhost:80"), "405");
        assert_eq!(status("GET / HTTP/1.1", "evil.example:80"), "421");
        assert_eq!(status("", ""), "421");
    }

    #[test]
    fn a_page_is_served_until_somebody_says_stop() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let stopped = AtomicBool::new(false);
        let (sender, port) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let sender = sender;
                serve("the page", 0, &mut |port| sender.send(port).unwrap(), &|| {
                    stopped.load(Ordering::Relaxed)
                })
            });
            let port = port.recv().unwrap();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nthe page"),
                "{answer}"
            );
            stopped.store(true, Ordering::Relaxed);
            server.join().unwrap().unwrap();
        });
    }
}
