//! A crash at every call to the disk (C5): the next start finds the log as it was, or as it is after the replacement.

use std::collections::BTreeMap;

use bytes::Bytes;
use fencepost_storage::{Cleaning, CleaningStep, CleaningTurn, Disk, LogConfig, StorageError};
use fencepost_types::Offset;

use crate::common::crash_disk::{CrashDisk, Dice};
use crate::common::*;
use crate::views::*;
use crate::writer::*;

/// Two groups of three segments each, with transactions that span them.
fn config() -> LogConfig {
    LogConfig { segment_bytes: 500, ..compacted() }
}

fn written(disk: CrashDisk) -> Writer<CrashDisk> {
    let mut writer = Writer::new(disk, config());
    for number in 0..12 {
        let (key, value) = (format!("k{}", number % 4), format!("{number:030}"));
        writer.transactional(1, number, &[(&key, Some(&value)), ("both", Some(&value))]);
        writer.plain(&[(&key, (number % 3 != 0).then_some("plain"))]);
        writer.end(1, number, number % 3 != 1, 2);
    }
    writer
}

/// Drives a cleaning until it is over, or a call to the disk fails.
fn drive(writer: &mut Writer<CrashDisk>, cleaning: &mut Cleaning) -> Result<(), StorageError> {
    loop {
        match cleaning.step(200)? {
            CleaningStep::More => {}
            CleaningStep::WantsLog => match cleaning.with_log(&mut writer.log)? {
                CleaningTurn::GoOn => {}
                CleaningTurn::Done => return Ok(()),
                CleaningTurn::Stale => panic!("nothing else happens to the log"),
            },
        }
    }
}

/// How a machine may stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Kill,
    Crash,
    CrashOutOfOrder,
}

fn stop(disk: &CrashDisk, how: Stop, dice: &mut Dice) -> CrashDisk {
    match how {
        Stop::Kill => disk.kill(),
        Stop::Crash => disk.crash(dice),
        Stop::CrashOutOfOrder => disk.crash_out_of_order(dice),
    }
}

/// A synced log, a pass that ends at the `calls`th change of the disk, a stop, a start. Answers whether the pass had come to
/// its end before.
fn crash_at(calls: u64, how: Stop, seed: u64) -> bool {
    let mut writer = written(CrashDisk::new());
    writer.sync();
    let (values, all) = (newest_values(&writer.log, 300), bounds(&writer.log));
    let recovery_point = writer.log.recovery_point();
    let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
    writer.disk.fail_after(Some(calls));
    let is_over = drive(&mut writer, &mut cleaning).is_ok();
    if !is_over {
        // Whoever still reads finds everything, unless the log is offline.
        if let Ok(slice) = writer.log.read(Offset(0), 1, Offset(1 << 30), true) {
            assert!(!slice.records.is_empty());
            assert_eq!(newest_values(&writer.log, 300), values);
        }
    }
    writer.disk = stop(&writer.disk, how, &mut Dice::new(seed));
    writer.log.set_cleaner_checkpoint(None);
    writer.reopen(unclean(recovery_point.0));
    let what = format!("{how:?} at call {calls}, seed {seed}");
    assert_eq!(newest_values(&writer.log, 300), values, "{what}");
    assert_eq!(bounds(&writer.log), all, "{what}");
    // What was left over is gone, and the next pass goes through.
    assert!(!writer.files().iter().any(|name| name.ends_with(".cleaned") || name.ends_with(".swap")));
    assert!(writer.clean(), "{what}");
    assert_eq!(newest_values(&writer.log, 300), values, "{what}");
    check_files(&writer.disk, &writer.log);
    is_over
}

/// See the page of this file.
#[test]
fn a_crash_at_every_call() {
    for how in [Stop::Kill, Stop::Crash, Stop::CrashOutOfOrder] {
        let seeds = if matches!(how, Stop::Kill) { 1 } else { 4 };
        let mut calls = 0;
        loop {
            let over: Vec<bool> = (0..seeds).map(|seed| crash_at(calls, how, seed)).collect();
            if over.into_iter().all(|over| over) {
                break;
            }
            calls += 1;
        }
        assert!(calls > 30, "{how:?}: only {calls} calls");
    }
}

/// Where nothing was synced before, as with acknowledgements from the page cache: what a record was replaced by is durable
/// before the record goes. Whatever end a crash leaves the log with, its values are those of what was written up to there.
#[test]
fn nothing_goes_before_its_successor_is_durable() {
    let mut calls = 0;
    loop {
        let mut is_over = true;
        for seed in 0..8 {
            let mut writer = Writer::new(CrashDisk::new(), LogConfig { segment_bytes: 300, ..compacted() });
            writer.plain(&[("first", Some("synced"))]);
            writer.sync();
            let mut written: Vec<(Offset, Bytes, Bytes)> = vec![(Offset(0), "first".into(), "synced".into())];
            for number in 0..14 {
                let (key, value) = (format!("k{}", number % 3), format!("{number:050}"));
                let offset = writer.plain(&[(&key, Some(&value))]);
                written.push((offset, key.into(), value.into()));
            }
            let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
            writer.disk.fail_after(Some(calls));
            is_over &= drive(&mut writer, &mut cleaning).is_ok();
            writer.disk = stop(&writer.disk, Stop::Crash, &mut Dice::new(seed));
            // What the checkpoint says of a log that was never cleaned to the end.
            writer.log.set_cleaner_checkpoint(Some(Offset(0)));
            writer.reopen(unclean(0));
            let end = writer.log.log_end_offset();
            let before = written.iter().filter(|(offset, _, _)| *offset < end);
            let wanted: BTreeMap<Bytes, Bytes> =
                before.map(|(_, key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(newest_values(&writer.log, 99), wanted, "call {calls}, seed {seed}, end {end}");
        }
        if is_over {
            break;
        }
        calls += 1;
    }
    assert!(calls > 20, "{calls}");
}

/// A disk that is full ends the cleaning and harms nothing; when there is room again, the next one goes through.
#[test]
fn a_full_disk_ends_a_cleaning() {
    for free_bytes in [0, 61, 100, 400, 1_000] {
        let mut writer = written(CrashDisk::new());
        let values = newest_values(&writer.log, 300);
        let mut cleaning = writer.log.start_cleaning(at(T), &cleaner()).unwrap().unwrap();
        writer.disk.set_free_bytes(Some(free_bytes));
        let failed = drive(&mut writer, &mut cleaning).is_err();
        if failed {
            assert!(cleaning.is_harmless());
            cleaning.abandon();
        }
        writer.disk.set_free_bytes(None);
        assert_eq!(newest_values(&writer.log, 300), values);
        writer.plain(&[("more", Some("v"))]);
        writer.roll();
        assert!(writer.clean() && failed);
        assert_eq!(newest_values(&writer.log, 300).len(), values.len() + 2);
        writer.disk.list("t-0").unwrap();
    }
}
