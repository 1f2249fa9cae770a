//! Pointing a program at another loader.
//!
//! The guest's kernel is a program for a newer C library than the host may have. It brings its own: the loader's path that
//! the program names is overwritten with a shorter, relative one, and the program is started where that path leads to
//! the library it was made for. Calling the loader by hand instead does not work, since the kernel starts itself anew
//! through `/proc/self/exe`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use anyhow::{Context, Result, bail, ensure};

/// The loader's path, relative to the folder the kernel is started in.
pub(crate) const LOADER: &str = "g/ld-linux-x86-64.so.2";

/// The type of the program header that names the loader.
const PT_INTERP: u32 = 3;

/// Makes a 64-bit little-endian ELF program name `loader` as its loader, in place.
pub(crate) fn point_at(program: &mut [u8], loader: &str) -> Result<()> {
    ensure!(program.get(..6) == Some(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF program");
    let table = number(program, 0x20, 8)?;
    let (entry, entries) = (number(program, 0x36, 2)?, number(program, 0x38, 2)?);
    for index in 0..entries {
        let header = index
            .checked_mul(entry)
            .and_then(|offset| offset.checked_add(table))
            .context("its program headers lie outside of it")?;
        if number(program, header, 4)? as u32 != PT_INTERP {
            continue;
        }
        let (at, size) = (number(program, header + 8, 8)?, number(program, header + 32, 8)?);
        let path = at
            .checked_add(size)
            .and_then(|end| program.get_mut(at..end))
            .context("the path of its loader lies outside of it")?;
        // One byte stays for the NUL that ends it.
        ensure!(
            loader.len() < path.len(),
            "no room for the loader's path: {} bytes for `{loader}`",
            path.len()
        );
        path.fill(0);
        path[..loader.len()].copy_from_slice(loader.as_bytes());
        return Ok(());
    }
    bail!("it names no loader, so it is static already");
}

/// A little-endian number of `size` bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<usize> {
    let field =
        at.checked_add(size).and_then(|end| bytes.get(at..end)).context("it ends within its headers")?;
    let value = field.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).context("it is larger than memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of two program headers, the second of which names a loader.
    fn program(loader: &[u8]) -> Vec<u8> {
        let mut file = vec![0u8; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x20..0x28].copy_from_slice(&64u64.to_le_bytes());
        file[0x36..0x38].copy_from_slice(&56u16.to_le_bytes());
        file[0x38..0x3a].copy_from_slice(&2u16.to_le_bytes());
        file[64..68].copy_from_slice(&1u32.to_le_bytes());
        let at = file.len() as u64;
        file[120..124].copy_from_slice(&PT_INTERP.to_le_bytes());
        file[128..136].copy_from_slice(&at.to_le_bytes());
        file[152..160].copy_from_slice(&(loader.len() as u64).to_le_bytes());
        file.extend_from_slice(loader);
        file.extend_from_slice(b"rest");
        file
    }

    #[test]
    fn the_path_is_replaced_padded_and_nothing_else_changes() {
        let mut file = program(b"/lib64/ld-linux-x86-64.so.2\0");
        let before = file.clone();
        point_at(&mut file, LOADER).unwrap();
        let at = 64 + 2 * 56;
        assert_eq!(&file[..at], &before[..at]);
        assert_eq!(&file[at..at + 28], b"g/ld-linux-x86-64.so.2\0\0\0\0\0\0");
        assert_eq!(&file[at + 28..], b"rest");
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused_and_leaves_the_file() {
        let mut file = program(b"/lib/ld.so\0");
        let before = file.clone();
        assert!(point_at(&mut file, LOADER).unwrap_err().to_string().contains("no room"));
        assert_eq!(file, before);
    }

    #[test]
    fn what_is_no_program_is_refused_at_every_length() {
        let whole = program(b"/lib64/ld-linux-x86-64.so.2\0");
        for length in 0..whole.len() - 4 {
            assert!(point_at(&mut whole[..length].to_vec(), LOADER).is_err(), "{length} bytes");
        }
        assert!(point_at(&mut b"#!/bin/sh\n".to_vec(), LOADER).is_err());
    }

    #[test]
    fn headers_that_point_nowhere_are_refused() {
        for field in [0x20, 128, 152] {
            let mut file = program(b"/lib64/ld-linux-x86-64.so.2\0");
            file[field..field + 8].fill(0xff);
            assert!(point_at(&mut file, LOADER).is_err(), "field at {field}");
        }
    }

    #[test]
    fn a_program_without_a_loader_says_so() {
        let mut file = program(b"/lib64/ld-linux-x86-64.so.2\0");
        file[120] = 1;
        assert!(point_at(&mut file, LOADER).unwrap_err().to_string().contains("static"));
    }
}
