import { deviceEndpoints } from '@coffer/contract/device'
import { answerDevice, createDeviceCode, pollDevice, readDevice } from '../../domain/account/device.ts'
import { type Routes, succeed } from '../route.ts'

export const deviceRoutes: Routes = (serve) => {
  serve(deviceEndpoints.createDeviceCode, ({ ctx, body }) => createDeviceCode(ctx, body.clientId))
  serve(deviceEndpoints.pollDevice, ({ ctx, body }) => pollDevice(ctx, body))
  serve(deviceEndpoints.readDevice, ({ ctx, body }) => readDevice(ctx, body.userCode))
  serve(deviceEndpoints.answerDevice, ({ ctx, body }) => succeed(answerDevice(ctx, body)))
}
