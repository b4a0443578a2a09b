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

/// A graph whose result has the name of an array below.
const GRAPH: &str =
    "graph 1\nname rectify\ninput x: f32[64, 32]\nlet r: f32[64, 32] = relu(x)\noutput y = r\n";

/// Runs a line that must be refused because of a file of this name, and holds that no file changed.
fn refused(folder: &Folder, line: &str, why: &str) {
    let before = contents(&folder.0);
    let output = run(folder, &line.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2), "{line}: {}", messages(&output));
    assert!(messages(&output).contains(why), "{line}: {}", messages(&output));
    assert!(messages(&output).contains("= instead: another name"), "{line}: {}", messages(&output));
    let after = contents(&folder.0);
    for (path, bytes) in before {
        assert!(after.iter().any(|(other, now)| *other == path && *now == bytes), "{line}: {path:?} changed");
    }
}

/// All files below a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all
}

/// A folder with all that a command may read: a graph, an array, a machine, a model with its tokenizer.
fn folder_of_inputs(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::write(folder.file("g.graph"), GRAPH).unwrap();
    fs::write(folder.file("my.toml"), "name = \"my\"\ndescription = \"mine\"\nbase = \"tcp\"\n").unwrap();
    fs::create_dir(folder.file("dd")).unwrap();
    fs::write(folder.file("dd/y.npy"), npy()).unwrap();
    fs::create_dir(folder.file("model")).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let from = repository().join("models/fables").join(file);
        fs::copy(from, folder.file("model").join(file)).unwrap();
    }
    fs::copy(folder.file("model/tokenizer.json"), folder.file("words.json")).unwrap();
    folder
}

/// An array file of 64 x 32 zeros.
fn npy() -> Vec<u8> {
    let mut header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (64, 32), }".to_vec();
    header.resize(117, b' ');
    header.push(b'\n');
    [&b"\x93NUMPY\x01\x00\x76\x00"[..], &header, &[0; 64 * 32 * 4]].concat()
}

#[test]
fn no_verb_writes_over_a_file_that_it_has_read() {
    let folder = folder_of_inputs("all-inputs");
    let lines = [
        "run g.graph --seed 1 --trace g.graph",
        "run g.graph --seed 1 --html g.graph",
        "run g.graph --input x=dd/y.npy -o dd",
        "run g.graph --interp --input x=dd/y.npy -o dd",
        "run g.graph --seed 1 --chip my.toml --trace my.toml",
        "run model --prompt A --trace model/model.safetensors",
        "run model --prompt A --trace model/config.json",
        "run model --prompt A --trace model/tokenizer.json",
        "run model --prompt A --tokenizer words.json --trace words.json",
        "compile model -o model/model.safetensors",
        "compile model --emit graph -o model/config.json",
        "compile g.graph -o ./g.graph",
        "sim residual.tcp --chip my.toml --trace my.toml",
        "view residual.tcp --html residual.tcp",
    ];
    for line in lines {
        refused(&folder, line, "is what the command reads");
    }
    assert!(run(&folder, &["compile", "g.graph", "-o", "g.twb"]).status.success());
    refused(&folder, "exec g.twb --seed 1 --trace g.twb", "is what the command reads");
    let data = run(&folder, &["sim", "residual.tcp", "--trace", "residual.tcp", "--json"]);
    assert!(String::from_utf8_lossy(&data.stdout).contains("\"code\": \"cli/overwrite\""));
}

#[test]
fn two_things_with_one_name_are_refused_before_anything_is_written() {
    let folder = folder_of_inputs("twice");
    assert!(run(&folder, &["compile", "g.graph", "-o", "g.twb"]).status.success());
    fs::create_dir(folder.file("new")).unwrap();
    let before = contents(&folder.0).len();
    let both = "`both` is what --trace and --html both write";
    let (y, z) = ("--trace and output `y` both write", "--trace and output `z` both write");
    refused(&folder, "run g.graph --seed 1 --trace both --html both", both);
    refused(&folder, "run g.graph --seed 1 --trace ./new/../new/y.npy -o new", y);
    refused(&folder, "run g.graph --seed 1 --html new/y.npy -o new", "--html and output `y` both write");
    refused(&folder, "exec g.twb --seed 1 --trace new/y.npy -o new", y);
    refused(&folder, "run model --prompt A --trace both --html both", both);
    refused(&folder, "sim residual.tcp --trace new/z.npy -o new", z);
    assert_eq!(contents(&folder.0).len(), before);
}

#[test]
fn new_files_go_beside_those_that_are_read() {
    let folder = folder_of_inputs("beside");
    let lines = [
        "run g.graph --input x=dd/y.npy -o results --trace t --html h.html",
        "run g.graph --input x=dd/y.npy -o results --trace t",
        "compile model --emit graph -o model/new.graph",
        "run g.graph --seed 1 --trace /dev/null --html /dev/null",
        "view residual.tcp --html residual.html",
        "sim residual.tcp --trace dd/y.npy",
    ];
    for line in lines {
        let output = run(&folder, &line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", messages(&output));
    }
    assert!(folder.file("results/y.npy").exists() && folder.file("model/new.graph").exists());
}

/// Halves are written as they are.
#[test]
fn an_output_of_float16_is_written_as_float16() {
    let folder = Folder::new("half");
    let graph = "graph 1\nname half\ninput x: f32[2]\nlet h: f16[2] = convert(x)\noutput y = h\n";
    fs::write(folder.file("h.graph"), graph).unwrap();
    let output = run(&folder, &["run", "h.graph", "--interp", "--seed", "1", "-o", "out"]);
    assert!(output.status.success(), "{}", messages(&output));
    let bytes = fs::read(folder.file("out/y.npy")).unwrap();
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    assert!(header.contains("'descr': '<f2'") && bytes.len() == 128 + 2 * 2, "{header}");
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
