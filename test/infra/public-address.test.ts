import { expect, test } from 'vitest'
import { isPublicAddress } from '../../infra/net/public-address.ts'

const words = (text: string) => text.trim().split(/\s+/)

test.each(words('1.1.1.1 8.8.8.8 93.184.215.14 172.15.0.1 172.32.0.1 100.63.0.1 2606:4700::1111 2a00:1450:4001::1'))(
  '%s is public',
  (address) => expect(isPublicAddress(address)).toBe(true),
)

const special = words(`
  0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1
  192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255`)
const special6 = words(`
  :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 2001:db8::1
  2002:7f00:1:: 3fff::1 fc00::1 fd12::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 2606::1%lo`)
const noAddress = ['', 'localhost', '1.1.1', '0x7f.1', '2130706433', '1.1.1.1 ', '[::1]']

test.each([...special, ...special6, ...noAddress])('%s is not public', (address) => expect(isPublicAddress(address)).toBe(false))
