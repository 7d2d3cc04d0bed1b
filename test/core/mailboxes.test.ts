import { expect, test } from 'vitest'
import { mailboxOf } from '../../core/mailboxes.ts'

test.each([
  ['Anna@Example.com', 'anna@example.com'],
  ['anna+1@example.com', 'anna@example.com'],
  ['anna+1+2@example.com', 'anna@example.com'],
  ['an.na@example.com', 'an.na@example.com'],
  ['An.Na+news@gmail.com', 'anna@gmail.com'],
  ['an.na@googlemail.com', 'anna@gmail.com'],
  ['+1@example.com', '@example.com'],
])('limits count %s as the mailbox %s', (address, mailbox) => expect(mailboxOf(address)).toBe(mailbox))
