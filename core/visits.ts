/** Where the pages of closed sites send their forms. The edge answers below `brand`, the api everything else. */
export const gatePaths = {
  password: '/__svc/login',
  email: '/__svc/login/email',
  code: '/__svc/login/code',
  logout: '/__svc/logout',
  brand: '/__svc/brand/',
} as const
