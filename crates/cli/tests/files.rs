//! What the binary does to files, links, pipes, devices and its own streams.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "these tests are about files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder of one test, gone when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilewright-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::copy(repository().join("kernels/residual.tcp"), path.join("residual.tcp")).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.current_dir(&folder.0).args(words).stdin(Stdio::null());
    command
}

fn run(folder: &Folder, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_link_stays_a_link_and_what_it_leads_to_is_written() {
    let folder = Folder::new("link");
    fs::create_dir(folder.file("there")).unwrap();
    fs::write(folder.file("there/old.twb"), "old").unwrap();
    symlink("there/old.twb", folder.file("link.twb")).unwrap();
    symlink("there/new.twb", folder.file("dangling.twb")).unwrap();
    for link in ["link.twb", "dangling.twb"] {
        let output = run(&folder, &["assemble", "residual.tcp", "-o", link]);
        assert!(output.status.success(), "{}", messages(&output));
        assert!(fs::symlink_metadata(folder.file(link)).unwrap().is_symlink());
        assert!(fs::read(folder.file(link)).unwrap().len() > 1000);
    }
}

#[test]
fn pipes_and_standard_output_are_written_through() {
    let folder = Folder::new("pipe");
    assert!(Command::new("mkfifo").arg(folder.file("pipe")).status().unwrap().success());
    let reader = Command::new("cat").arg(folder.file("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    let output = run(&folder, &["assemble", "residual.tcp", "-o", "pipe"]);
    assert!(output.status.success(), "{}", messages(&output));
    let read = reader.wait_with_output().unwrap();
    assert!(fs::metadata(folder.file("pipe")).unwrap().file_type().is_fifo());
    let plain = run(&folder, &["assemble", "residual.tcp", "-o", "plain.twb"]);
    assert!(plain.status.success());
    assert_eq!(read.stdout, fs::read(folder.file("plain.twb")).unwrap());
    let streamed = run(&folder, &["assemble", "residual.tcp", "-o", "/dev/stdout"]);
    assert!(streamed.stdout.starts_with(&read.stdout), "{}", messages(&streamed));
}

#[test]
fn a_command_does_not_write_over_what_it_reads() {
    let folder = Folder::new("own");
    let before = fs::read(folder.file("residual.tcp")).unwrap();
    symlink("residual.tcp", folder.file("same.tcp")).unwrap();
    let lines: [&[&str]; 4] = [
        &["assemble", "residual.tcp", "-o", "residual.tcp"],
        &["assemble", "residual.tcp", "-o", "same.tcp"],
        &["assemble", "residual.tcp", "-o", "./residual.tcp"],
        &["sim", "residual.tcp", "--trace", "residual.tcp"],
    ];
    for line in lines {
        let output = run(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(messages(&output).contains("is what the command reads"), "{}", messages(&output));
        assert_eq!(fs::read(folder.file("residual.tcp")).unwrap(), before);
    }
}

#[test]
fn a_full_disk_is_told_and_a_reader_that_leaves_is_not() {
    let folder = Folder::new("full");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&folder, &["machine", "list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("cannot write standard output"), "{}", messages(&output));
    let traced = run(&folder, &["sim", "residual.tcp", "--trace", "/dev/full"]);
    assert_eq!(traced.status.code(), Some(1), "{}", messages(&traced));
    assert!(messages(&traced).contains("cannot write `/dev/full`"), "{}", messages(&traced));
    let mut command = command(&folder, &["machine", "show", "tcp"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), messages(&output)), (Some(0), String::new()));
}

#[test]
fn what_killed_processes_left_is_removed_and_what_others_write_is_not() {
    let folder = Folder::new("partial");
    // No process has so large a number.
    let (gone, alive) = ("residual.twb.partial-4194304", "residual.twb.partial-1");
    let not_ours = "residual.twb.partial-notes";
    for name in [gone, alive, not_ours] {
        fs::write(folder.file(name), "half").unwrap();
    }
    let output = run(&folder, &["assemble", "residual.tcp", "-o", "residual.twb"]);
    assert!(output.status.success(), "{}", messages(&output));
    let mut left: Vec<String> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(".partial-"))
        .collect();
    left.sort();
    assert_eq!(left, [alive, not_ours]);
}

#[test]
fn an_interrupted_compile_leaves_no_file() {
    let folder = Folder::new("interrupted");
    let mut graph = String::from("graph 1\nname long\ninput v0: f32[8, 8]\ninput w: f32[8, 8]\n");
    for at in 0..1000 {
        let (from, to) = (at, at + 1);
        graph += &format!("let v{to}: f32[8, 8] = einsum(v{from}, w) spec=\"mk,nk->mn\"\n");
    }
    fs::write(folder.file("long.graph"), graph + "output y = v1000\n").unwrap();
    let mut compile =
        command(&folder, &["compile", "long.graph", "-o", "long.twb"]).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = Command::new("kill").args(["-INT", &compile.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(!compile.wait().unwrap().success());
    let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|name| name.contains("twb")), "{left:?}");
}
