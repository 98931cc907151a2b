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
