// What /docs does: search, copy buttons, and forms that send what is filled in with the key of this tab.

const keyField = document.querySelector('#key')
keyField.value = sessionStorage.getItem(keyField.name) ?? ''
keyField.addEventListener('input', () => sessionStorage.setItem(keyField.name, keyField.value))

// on a narrow page the contents would hide the text
const contents = document.querySelector('#contents')
const isNarrow = matchMedia('(max-width: 56rem)')
contents.open = !isNarrow.matches
isNarrow.addEventListener('change', () => {
  contents.open = !isNarrow.matches
})
contents.addEventListener('click', (event) => {
  if (event.target.matches('a') && isNarrow.matches) contents.open = false
})

const search = document.querySelector('#search')
search.addEventListener('input', filter)
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, textarea')) return
  event.preventDefault()
  search.focus()
})

/** Shows only the operations and error codes in whose text every word is found. */
function filter() {
  const words = search.value.toLowerCase().split(' ').filter(Boolean)
  const isFound = (text) => words.every((word) => text.includes(word))
  const linkTo = (element) => document.querySelector(`nav a[href="#${element.id}"]`).parentElement
  for (const row of document.querySelectorAll('#errors dl div')) row.hidden = !isFound(row.textContent.toLowerCase())
  for (const article of document.querySelectorAll('article')) {
    article.hidden = !isFound(article.dataset.words)
    linkTo(article).hidden = article.hidden
  }
  for (const section of document.querySelectorAll('section')) {
    section.hidden = words.length > 0 && !section.querySelector('article:not([hidden]), dl > div:not([hidden])')
    linkTo(section).hidden = section.hidden
  }
  document.querySelector('#nothing').hidden = document.querySelector('section:not([hidden])') !== null
}

for (const command of document.querySelectorAll('.curl')) {
  const text = command.textContent
  const button = document.createElement('button')
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
  command.append(button)
}

for (const form of document.querySelectorAll('form')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    button.disabled = true
    show(form, await answer(form))
    button.disabled = false
  })
}

/** The fields of the form that go to one place and are filled in, as pairs of name and field. */
const filled = (form, place) =>
  [...form.elements].filter((field) => field.dataset.in === place && field.value !== '').map((field) => [field.name, field])

async function answer(form) {
  const { method, path: template } = form.dataset
  let path = template
  for (const [name, field] of filled(form, 'path')) path = path.replace(`{${name}}`, encodeURIComponent(field.value))
  const query = new URLSearchParams(filled(form, 'query').map(([name, field]) => [name, field.value]))
  const headers = { accept: 'application/json', authorization: `Bearer ${keyField.value.trim()}` }
  let body
  for (const [, field] of filled(form, 'json')) {
    body = field.value
    headers['content-type'] = 'application/json'
  }
  for (const [, field] of filled(form, 'bytes')) {
    body = field.files[0]
    headers['content-type'] = body.name.endsWith('.zip') ? 'application/zip' : 'application/gzip'
  }
  try {
    const response = await fetch(query.size > 0 ? `${path}?${query}` : path, { method, headers, body })
    return { status: `${response.status} ${response.statusText}`, text: await response.text() }
  } catch (error) {
    return { status: 'no answer', text: error.message }
  }
}

function show(form, { status, text }) {
  const heading = document.createElement('strong')
  heading.textContent = status
  const body = document.createElement('pre')
  body.textContent = pretty(text)
  form.querySelector('output').replaceChildren(heading, body)
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
