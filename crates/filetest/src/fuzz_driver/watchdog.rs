//! Watchdog of the fuzz driver: keeps the input under test in a file, so that a check that takes the process
//! with it leaves its reproducer there, and ends a check that hangs.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Seconds after which a check is taken not to end.
const ENDLESS_SECONDS: u64 = 120;

/// Watches over one check after the other.
#[derive(Debug)]
pub struct Watchdog {
    file: Mutex<File>,
    /// Checks that began, and whether one is under way.
    begun: Arc<AtomicU64>,
    busy: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    /// Starts to watch; the input that is checked lies in `current` of a folder.
    ///
    /// # Panics
    /// Where that file cannot be written.
    pub fn start(folder: &Path) -> Watchdog {
        let path = folder.join("current");
        let made = std::fs::create_dir_all(folder).and_then(|()| File::create(&path));
        let Ok(file) = made else { panic!("{} cannot be written: {made:?}", path.display()) };
        let (begun, busy, over) = (Arc::default(), Arc::default(), Arc::default());
        let thread = watch(path, Arc::clone(&begun), Arc::clone(&busy), Arc::clone(&over));
        Watchdog { file: Mutex::new(file), begun, busy, over, thread }
    }

    /// A check of a target begins.
    pub fn begin(&self, name: &str, input: &[u8]) {
        if let Ok(mut file) = self.file.lock() {
            let head = format!("{name} {}\n", input.len());
            let _ = file
                .seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(&[head.as_bytes(), input].concat()));
        }
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
    }

    /// It ended.
    pub fn end(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Ends the watch.
    pub fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// Looks once a second whether the same check is still under way.
fn watch(
    path: PathBuf,
    begun: Arc<AtomicU64>,
    busy: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut last, mut seconds) = (0, 0);
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
            let now = begun.load(Ordering::Relaxed);
            seconds = if now == last && busy.load(Ordering::Relaxed) { seconds + 1 } else { 0 };
            last = now;
            if seconds > 5 * ENDLESS_SECONDS {
                let kept = path.with_file_name("endless");
                let _ = std::fs::copy(&path, kept);
                std::process::abort();
            }
        }
    })
}
