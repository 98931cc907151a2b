//! A drive by its path.

use super::{Emulator, Latency, LinuxDevice, ZonedDevice};
use crate::store::{self, StoreError};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Opens the drive at `path`: a zoned block device, or an emulated drive in a file or on a block device without zones, which then may be
/// given the time that a real one takes. Fails with `InvalidInput` if it is neither.
pub fn find(path: &Path, latency: Option<Latency>) -> store::Result<Arc<dyn ZonedDevice>> {
    let wrong =
        |kind: io::ErrorKind, what: &str| StoreError::store("open drive", io::Error::new(kind, format!("{}: {what}", path.display())));
    let about = std::fs::metadata(path).map_err(|e| wrong(e.kind(), &e.to_string()))?;
    let is_device = about.file_type().is_block_device();
    let is_emulated = (is_device || about.is_file()) && Emulator::is_image(path);
    if is_device && !is_emulated {
        if latency.is_some() {
            return Err(wrong(io::ErrorKind::InvalidInput, "only an emulated drive takes a modelled time"));
        }
        return Ok(Arc::new(LinuxDevice::open(path)?));
    }
    if !is_emulated {
        return Err(wrong(io::ErrorKind::InvalidInput, "neither a zoned block device nor the file of an emulated drive"));
    }
    let drive = Emulator::open(path)?;
    Ok(Arc::new(match latency {
        Some(latency) => drive.with_latency(latency, Arc::new(std::thread::sleep)),
        None => drive,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::Geometry;

    #[test]
    fn drives_are_told_from_what_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (image, file) = (folder.path().join("drive"), folder.path().join("file"));
        let kind = |path: &Path| find(path, None).unwrap_err().source.kind();
        assert_eq!(kind(&image), io::ErrorKind::NotFound);
        std::fs::write(&file, "SINTZONE").unwrap();
        for other in [&file, folder.path()] {
            assert_eq!(kind(other), io::ErrorKind::InvalidInput);
        }
        let geometry = Geometry { block: 512, zones: 4, zone_size: 4096, max_open: None, max_active: None, conventional: 0 };
        let made = Emulator::create(&image, geometry.clone(), 4096).unwrap();
        assert!(find(&image, None).unwrap_err().is_locked());
        assert!(Emulator::remove(&image).unwrap_err().is_locked());
        drop(made);
        assert_eq!(*find(&image, Some(Latency::zn540())).unwrap().geometry(), geometry);
        Emulator::remove(&image).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "both files are gone");
        assert_eq!(std::fs::read(&file).unwrap(), b"SINTZONE");
    }

    /// A process that dies while a drive is made or removed leaves its states, or an empty file for them.
    #[test]
    fn half_a_drive_is_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let (image, states) = (folder.path().join("drive"), folder.path().join("drive.zones"));
        let geometry = Geometry { block: 512, zones: 4, zone_size: 4096, max_open: None, max_active: None, conventional: 0 };
        let create = || Emulator::create(&image, geometry.clone(), 4096);
        std::fs::write(&states, "").unwrap();
        drop(create().unwrap());
        let whole = std::fs::read(&states).unwrap();
        // The header comes last.
        let begun = [&[0; 512], &whole[512..]].concat();
        for left in [whole, begun] {
            std::fs::remove_file(&image).unwrap();
            std::fs::write(&states, left).unwrap();
            let error = create().unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
            assert!(error.to_string().contains("drive.zones: "), "{error}");
            Emulator::remove(&image).unwrap();
            drop(create().unwrap());
        }
        // Nothing of others is lost.
        std::fs::remove_file(&states).unwrap();
        std::fs::write(&image, "mine").unwrap();
        assert_eq!(create().unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((std::fs::read(&image).unwrap(), states.exists()), (b"mine".to_vec(), false));
    }

    /// More than most file systems let a file be long.
    #[test]
    fn a_drive_that_cannot_be_made_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let geometry = Geometry { block: 512, zones: 7, zone_size: 1 << 60, max_open: None, max_active: None, conventional: 0 };
        let made = Emulator::create(folder.path().join("drive"), geometry, 4096);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, if made.is_ok() { 2 } else { 0 }, "{:?}", made.err());
    }
}
