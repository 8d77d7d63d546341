//! Zip archives as tests need them.

/// An archive of these files, stored, in this order.
pub fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in files {
        let sizes = [crc32fast::hash(data), data.len() as u32, data.len() as u32];
        let header_at = bytes.len() as u32;
        let common = |out: &mut Vec<u8>| {
            // Version, flags, method, time and date; checksum and sizes; lengths of the name and of the extra field.
            out.extend([20u16, 0, 0, 0, 0].map(u16::to_le_bytes).concat());
            out.extend(sizes.map(u32::to_le_bytes).concat());
            out.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        };
        bytes.extend(b"PK\x03\x04");
        common(&mut bytes);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
        directory.extend(b"PK\x01\x02\x14\x00");
        common(&mut directory);
        directory.extend([0; 10]);
        directory.extend(header_at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, size, n) = (
        bytes.len() as u32,
        directory.len() as u32,
        files.len() as u16,
    );
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([n, n].map(u16::to_le_bytes).concat());
    bytes.extend([size, start].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}
