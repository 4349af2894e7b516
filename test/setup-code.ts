/** The code that services under test are started with, so that every client can make the first account. */
export const setupCode = 'the setup code of the tests'
