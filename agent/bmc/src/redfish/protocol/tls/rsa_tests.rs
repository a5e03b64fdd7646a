//! Signatures of "a message" by OpenSSL.

use rustls::SignatureScheme as Scheme;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |text: &str| u8::from_str_radix(text, 16).unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|at| digit(&hex[at..at + 2]))
        .collect()
}

const MESSAGE: &[u8] = b"a message";
const EXPONENT: &[u8] = &[1, 0, 1];

const KEY_1024: &str = "ad824a2ff0aa58b2015e691c5438a422aadeb436cbe03149d51f3f2115c6a4c3d75404c932ad8bfafacce6783126\
     de238711819b1f53b09eaad751b9a709450608837a36afde9fa00e1dd94d062140ccf9642177491edf36b6b3194c\
     dbfc816e587cac91efc5aea10a187489863c0d7f48ad31d24ca9052db894b9b0f8d107e9";
const KEY_1025: &str = "017e99d7f86bcc35976c2a8061a4d8abcab87b88cf1d09a382d2da8cd0e6b3129dcd4d2005e46f252a3bdedb921b\
     bb3acc6ae65b0edad7776ebd97df72b20b1f8c2a2849bbc9954a5b7a624b77b44f239649ceb5ee36f88d6af9c176\
     54dd3ccfc308eeb65edf4f6fb202dd0a356c2106b80f9dffdf0d7897c82bd47e7eea97f057";
const PKCS1_SHA256: &str = "22e8ca7609bf4bed2ad3e2301e51a7e2d3ff6815947838b61aab2d6f943a6f492d5706d2531efcda8c7c3c47119d\
     d7cff4eeedf438ec0bf6feda75f02be3b90797bdf43635282f38fd4667d9ceef11bf54487babfbc1d3e45dac9c95\
     9b419d63f748954ebf25593b09e545851f20798fba2e1aeec1be5fa95ea0c000d47fb106";
const PKCS1_SHA512: &str = "5867e33403c6402277ae50cd0894d8b18fab5d89fc0f09ad038c6b2c9e55a36dcc24b587b04540ab39241b285d6a\
     99841096e358a8b02bd432656764b268ffbfe09223f44d308371d9d132cff7d1a2a37ab47d46dc60ea74f55f9d14\
     81d1640e18f671390ae5d5eb32fdd1dddec9fa37aa7081d5e56b0307cc5f05907c25e27e";
const PSS_SHA256: &str = "044a73b1695135548d40ff7d83a964464399eb10b75b5a83b7965b443b78b8184c4966610049ecc326e263e65874\
     014ee19277119e3d0602a6f7bc8579067123b60cf0a00adec3ec0b8a25f3a88a5bd679089564c4acb0569c990452\
     f15e185841f1f3650dc616066127b700a1d0311eee7a197e00a55069cffa4eda1ad92af2";
const PSS_SHA384: &str = "37041126612650f70735787acb79770d5b7f1a348c34039298230693139295d9b68e1f2a21126a6698b1c25d0d05\
     6d42046bc72aa284e12d6cb18db1f6257c7b76d75fc6c924b80f426d9af528303e5dadda3ee0cc2d9af2ae74dc2b\
     b0e66d1561bbae376ebd4368a13ebce16f37dee9bb0e8899da9b7c7b165a63a9a5af2c62";
const PSS_1025: &str = "01692c944d5e3e7c5dba226848cce19bd6818c7083219dd1f13dc6930f427ca9e77c4fe06f2ff3b02111a3f09f03\
     041c0f1f8cf9aefb9a099b5cfb1068659afc38abc7248269955383c2ec80d4459c117de212eca0f41232bd963312\
     761491ee40a363628f8fa8f8fbe6be4ec2ce8b05493aaa731f3726e8aba39b0b2b11e5ae58";

/// Key, scheme and signature.
const SIGNED: &[(&str, Scheme, &str)] = &[
    (KEY_1024, Scheme::RSA_PKCS1_SHA256, PKCS1_SHA256),
    (KEY_1024, Scheme::RSA_PKCS1_SHA512, PKCS1_SHA512),
    (KEY_1024, Scheme::RSA_PSS_SHA256, PSS_SHA256),
    (KEY_1024, Scheme::RSA_PSS_SHA384, PSS_SHA384),
    (KEY_1025, Scheme::RSA_PSS_SHA256, PSS_1025),
];

#[test]
fn signatures_of_openssl_are_valid() {
    for (key, scheme, signature) in SIGNED {
        let key = ShortKey::new(&bytes(key), EXPONENT).unwrap();
        assert!(
            key.verify(*scheme, MESSAGE, &bytes(signature)),
            "{scheme:?}"
        );
    }
}

#[test]
fn signature_of_anything_else_is_invalid() {
    let all = [
        Scheme::RSA_PKCS1_SHA256,
        Scheme::RSA_PKCS1_SHA384,
        Scheme::RSA_PKCS1_SHA512,
        Scheme::RSA_PSS_SHA256,
        Scheme::RSA_PSS_SHA384,
        Scheme::RSA_PSS_SHA512,
        Scheme::RSA_PKCS1_SHA1,
        Scheme::ED25519,
    ];
    for (key, scheme, signature) in SIGNED {
        let signature = bytes(signature);
        let key = ShortKey::new(&bytes(key), EXPONENT).unwrap();
        assert!(!key.verify(*scheme, b"another message", &signature));
        for other in all.iter().filter(|other| *other != scheme) {
            assert!(
                !key.verify(*other, MESSAGE, &signature),
                "{scheme:?} as {other:?}"
            );
        }
        for at in [0, 1, signature.len() / 2, signature.len() - 1] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(
                !key.verify(*scheme, MESSAGE, &changed),
                "{scheme:?}, byte {at}"
            );
        }
        for wrong in [
            &signature[1..],
            &[&[0], &signature[..]].concat(),
            &[],
            &[0xff; 128],
            &[0; 128],
        ] {
            assert!(!key.verify(*scheme, MESSAGE, wrong));
        }
    }
}

#[test]
fn only_short_keys_that_are_not_broken_are_used() {
    for (bits, exponent, is_used) in [
        (512, EXPONENT, false),
        (1024, EXPONENT, true),
        (2047, EXPONENT, true),
        (2048, EXPONENT, false),
        (1024, &[3][..], true),
        (1024, &[1][..], false),
        (1024, &[1, 0][..], false),
        (1024, &[1, 0, 0, 0, 1, 1][..], false),
    ] {
        let mut modulus: BigUint = (BigUint::from(1_u8) << (bits - 1)) + 1_u8;
        assert_eq!(
            ShortKey::new(&modulus.to_bytes_be(), exponent).is_some(),
            is_used,
            "{bits}"
        );
        modulus += 1_u8;
        assert!(ShortKey::new(&modulus.to_bytes_be(), exponent).is_none());
    }
}
